// Real predictions of the service, BERT base on an A10, to test with.
import type { Advice, Analysis, Gpu, Job, JobEvent, Model, Option } from "../src/api/types";
import adviceJson from "./data/bert-a10-advice.json";
import analysisJson from "./data/bert-a10.json";
import eventsJson from "./data/bert-a10-events.json";
import optionsJson from "./data/options.json";

export const analysis = analysisJson as unknown as Analysis;
export const advice = adviceJson as unknown as Advice;
export const events = eventsJson as unknown as JobEvent[];
/** What GET /options answers; `npm run api` keeps it current. */
export const options = optionsJson.options as unknown as Option[];

export const optionNamed = (name: string): Option => options.find((option) => option.name === name)!;

export const changed = (changes: Partial<Analysis>): Analysis => ({ ...analysis, ...changes });

export const bert: Model = {
  id: "bert",
  name: "BERT base",
  description: "Encoder for text classification, 12 layers, 2 labels, 128 tokens",
  type: "nlp",
  huggingface_id: "google-bert/bert-base-uncased",
  parameters: 109_483_778,
  task: "sequence-classification",
  sample_unit: "tokens",
  sample_size: 128,
  max_sample_size: 512,
};

export const resnet: Model = {
  id: "resnet",
  name: "ResNet-50",
  description: "Convolutional network for image classification, 1000 labels, 224x224 pixels",
  type: "vision",
  huggingface_id: "microsoft/resnet-50",
  parameters: 25_557_032,
  task: "image-classification",
  sample_unit: "pixels",
  sample_size: 224,
  max_sample_size: 4096,
};

export const gpu = (id: string, memoryGib: number): Gpu => ({
  id,
  name: `NVIDIA ${id.toUpperCase()}`,
  memory_bytes: memoryGib * 2 ** 30,
  compute_capability: "8.6",
  segment: "datacenter",
  memory_estimated: false,
  memory_only: false,
  price: null,
  prices: [],
  here: false,
  default: false,
});

/** A job about this training, asked as given. */
export const job = (changes: Partial<Job>): Job =>
  ({
    id: "abc",
    state: "done",
    kind: "analysis",
    model_name: "bert",
    target: "a10",
    recipe_words: "fp32, AdamW",
    sample_words: null,
    current_batch_size: 16,
    error: null,
    error_kind: null,
    headline: null,
    options: { model_name: "bert", gpu: "a10" },
    ...changes,
  }) as Job;
