/** Figures in words. What is not known is an en dash. */

export const ABSENT = "–";

const known = (x: number | null | undefined): x is number => typeof x === "number" && Number.isFinite(x);

function three(x: number): string {
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1).replace(/\.0$/, "") : x.toFixed(2).replace(/\.?0+$/, "");
}

function scaled(x: number, base: number, units: string[]): string {
  let unit = 0;
  while (x >= base && unit < units.length - 1) {
    x /= base;
    unit += 1;
  }
  return `${three(x)} ${units[unit]}`.trim();
}

export function bytes(x: number | null | undefined): string {
  return known(x) ? scaled(x, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) : ABSENT;
}

export function figure(x: number | null | undefined, unit = ""): string {
  return known(x)
    ? scaled(
        x,
        1000,
        ["", "k", "M", "G", "T", "P"].map((prefix) => prefix + unit),
      )
    : ABSENT;
}

export function seconds(x: number | null | undefined): string {
  if (!known(x)) return ABSENT;
  if (x === 0) return "0 s";
  if (x < 1e-6) return `${three(x * 1e9)} ns`;
  if (x < 1e-3) return `${three(x * 1e6)} µs`;
  if (x < 1) return `${three(x * 1e3)} ms`;
  return `${three(x)} s`;
}

export function ratio(x: number | null | undefined): string {
  return known(x) ? three(x) : ABSENT;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** "a, b, c and 4 more" */
export function listed(items: readonly string[], most = 6): string {
  if (items.length <= most) return items.join(", ");
  return `${items.slice(0, most).join(", ")} and ${items.length - most} more`;
}

export function clip(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
