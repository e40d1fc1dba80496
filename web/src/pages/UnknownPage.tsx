import { useTitle } from "../hooks/use-title";
import { link } from "../logic/route";
import { LinkButton } from "../ui/Button";

export function UnknownPage() {
  useTitle("Nothing here");
  return (
    <div className="py-16 text-center">
      <h1 className="text-2xl font-semibold">There is nothing here</h1>
      <p className="mt-2 text-soft">The address may be mistyped.</p>
      <LinkButton href={link.analyze()} className="mt-6">
        Start an analysis
      </LinkButton>
    </div>
  );
}
