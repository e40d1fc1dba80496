// Real predictions of the service, BERT base on an A10, to test with.
import type { Advice, Analysis, Gpu, JobEvent, Model, Question } from "../src/api/types";
import adviceJson from "./data/bert-a10-advice.json";
import analysisJson from "./data/bert-a10.json";
import eventsJson from "./data/bert-a10-events.json";

export const analysis = analysisJson as unknown as Analysis;
export const advice = adviceJson as unknown as Advice;
export const events = eventsJson as unknown as JobEvent[];

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
  price: null,
  prices: [],
  here: false,
});

export const question: Question = {
  request: analysis.request,
  current_batch_size: 16,
  max_batch: null,
  margin: 0.05,
  usage: { hours_per_run: 2, runs_per_year: 100, people: 1 },
  price_per_hour: null,
  all_gpus: false,
  seq_lens: [],
  advise: false,
  try_compile: true,
};
