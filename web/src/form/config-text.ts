// A pasted config.json: what it holds, or what is wrong with it.
import type { Option } from "../api/types";
import { count } from "../shared/format";

export interface ReadConfig {
  config: Record<string, unknown> | null;
  error: string | null;
}

export function readConfig(text: string): ReadConfig {
  if (text.trim() === "") return wrong("Paste the content of a config.json.");
  let content: unknown;
  try {
    content = JSON.parse(withoutClassName(text));
  } catch {
    return wrong(notJson(text));
  }
  if (typeof content !== "object" || content === null || Array.isArray(content)) {
    return wrong("This is JSON but not a config: a config.json is one object, from { to }.");
  }
  const config = content as Record<string, unknown>;
  const fault = noModel(config);
  return fault ? wrong(fault) : { config, error: null };
}

/** What is wrong with a pasted config, also with its size. */
export function configError(text: string, option: Option | undefined): string | null {
  const longest = option?.longest ?? Infinity;
  if (new Blob([text]).size > longest) return `This is larger than ${count(longest / 1024)} KiB, too large for a model's config.`;
  return readConfig(text).error;
}

/** The model that a config is of, in a few words. */
export function configWords(config: Record<string, unknown>): string {
  const layers = config["num_hidden_layers"] ?? config["n_layer"] ?? config["num_layers"];
  const width = config["hidden_size"] ?? config["n_embd"] ?? config["d_model"];
  return [
    `A ${String(config["model_type"])} model`,
    ...(typeof layers === "number" ? [`${layers} layers`] : []),
    ...(typeof width === "number" ? [`${width} wide`] : []),
  ].join(", ");
}

/** `print(config)` of transformers begins with the name of the class. */
function withoutClassName(text: string): string {
  return text.trim().replace(/^\w+Config\s*(?=\{)/, "");
}

function notJson(text: string): string {
  const start = text.trimStart().charAt(0);
  if (start !== "{" && start !== "[") return "This is not JSON: a config.json begins with { and ends with }.";
  if (!text.trimEnd().endsWith("}")) return "This JSON ends too early: paste the whole file, to its last }.";
  return "This is not JSON: paste the file unchanged.";
}

/** The same faults that the service finds, told before it is asked. */
function noModel(config: Record<string, unknown>): string | null {
  if (typeof config["model_type"] === "string") return null;
  if (typeof config["architecture"] === "string") {
    return `This is the config of a timm model: choose it by name, as timm:${config["architecture"]}.`;
  }
  if ("base_model_name_or_path" in config) return "This is the config of an adapter: paste the one of its base model.";
  if ("auto_map" in config) return "This model brings its own code, which the service does not run.";
  if ("tokenizer_class" in config) return "This is the config of a tokenizer: paste the model's config.json.";
  return "This has no model_type, so it is not a model's config: paste one as transformers writes it.";
}

function wrong(error: string): ReadConfig {
  return { config: null, error };
}
