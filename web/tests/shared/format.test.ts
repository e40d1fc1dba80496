import { describe, expect, it } from "vitest";
import * as show from "../../src/shared/format";

describe("formatting", () => {
  it("shows sizes as the command line does", () => {
    expect(show.bytes(21.7 * 2 ** 30)).toBe("21.70 GiB");
    expect(show.bytes(14 * 2 ** 20)).toBe("14.0 MiB");
    expect(show.bytes(512)).toBe("0.5 KiB");
    expect(show.bytes(2.06 * 2 ** 30, 1)).toBe("2.1 GiB");
  });

  it("counts millions at ticks", () => {
    expect([0, 2_500, 10_000_000, 1_250_000].map(show.tick)).toEqual(["0", "2,500", "10M", "1.25M"]);
  });

  it("shows cents where they matter, and the sign in front", () => {
    expect(show.dollars(0.909)).toBe("$0.909");
    expect(show.dollars(16_558.4)).toBe("$16,558");
    expect(show.dollars(-3.5)).toBe("-$3.50");
    expect(show.dollars(0.0412)).toBe("$0.0412");
    expect(show.dollars(0)).toBe("$0.00");
  });

  it("shows counts, speeds and times", () => {
    expect(show.count(1234)).toBe("1,234");
    expect(show.speedup(1.5439)).toBe("1.54x");
    expect(show.perSecond(76.14)).toBe("76.1");
    expect(show.perSecond(1685.2)).toBe("1,685");
    expect(show.perSecond(0.04123)).toBe("0.0412");
    expect(show.perSecond(0.4)).toBe("0.400");
    expect(show.perSecond(99.96)).toBe("100");
    expect(show.perSecond(0)).toBe("0");
    expect(show.parameters(109_483_778)).toBe("109M");
    expect(show.parameters(25_557_032)).toBe("25.6M");
    expect(show.seconds(4.26)).toBe("4.26 s");
    expect(show.hours(0.25)).toBe("15.0 min");
    expect(show.hours(7.123)).toBe("7.12 h");
    expect(show.hours(60)).toBe("2.50 days");
    expect(show.parameters(7_248_023_552)).toBe("7.25B");
    expect(show.seconds(119.9)).toBe("2 min 0 s");
  });

  it("says how long ago", () => {
    const now = Date.parse("2026-11-15T12:00:00Z");
    expect(show.ago("2026-11-15T11:59:40Z", now)).toBe("just now");
    expect(show.ago("2026-11-15T11:20:00Z", now)).toBe("40 min ago");
    expect(show.ago("2026-11-15T02:00:00Z", now)).toBe("10 h ago");
  });
});
