import { link } from "../shared/route";
import { goTo } from "../shared/use-route";
import { Button } from "../ui/Button";

export function AnalyzeAnother() {
  return (
    <Button look="primary" onClick={() => goTo(link.analyze())}>
      Analyze Another Model
    </Button>
  );
}
