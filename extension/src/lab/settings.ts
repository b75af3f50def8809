/** The user's settings (schema/plugin.json). */

export interface Options {
  gutter: boolean;
  colours: "default" | "high contrast";
  autocompile: boolean;
}

export const standard: Options = { gutter: true, colours: "default", autocompile: false };

export function optionsOf(given: { readonly [key: string]: unknown }): Options {
  return {
    gutter: given.gutter !== false,
    colours: given.colours === "high contrast" ? "high contrast" : "default",
    autocompile: given.autocompile === true,
  };
}
