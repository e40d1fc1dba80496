import { goTo } from "../hooks/use-route";
import { link } from "../logic/route";
import { Button } from "../ui/Button";

export function AnalyzeAnother() {
  return (
    <Button look="primary" onClick={() => goTo(link.analyze())}>
      Analyze Another Model
    </Button>
  );
}
