import { API_URL } from "../api/client";
import { useHealth } from "../api/queries";

export function Footer() {
  const { data } = useHealth();
  return (
    <footer className="border-t border-line">
      <div className="mx-auto flex w-full max-w-[82rem] flex-wrap justify-between gap-x-6 gap-y-1 px-4 py-4 text-xs text-faint sm:px-6">
        <p>MemoryMark {data?.version ?? ""}</p>
        <p>1 GiB = 2³⁰ bytes</p>
        <a href={`${API_URL}/openapi/swagger`} className="underline hover:text-ink">
          API documentation
        </a>
      </div>
    </footer>
  );
}
