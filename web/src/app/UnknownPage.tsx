import { LinkButton } from "../ui/Button";
import { link } from "../shared/route";
import { useTitle } from "../shared/use-title";

export function UnknownPage() {
  useTitle("Page not found");
  return (
    <div className="py-16 text-center">
      <h1 className="text-2xl font-semibold">Page not found</h1>
      <p className="mt-2 text-soft">The address may be mistyped.</p>
      <LinkButton href={link.analyze()} className="mt-6">
        Start an analysis
      </LinkButton>
    </div>
  );
}
