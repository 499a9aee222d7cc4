/** Names of a place in one language. */
export interface PlaceNames {
  readonly continentName?: string | undefined;
  readonly countryName?: string | undefined;
  readonly regionName?: string | undefined;
  readonly subregionName?: string | undefined;
  readonly cityName?: string | undefined;
}

/** The known facts of a place. A fact that the database lacks is undefined. */
export interface Place extends PlaceNames {
  /** Two letters: `EU`, `NA`. */
  readonly continent?: string | undefined;
  /** ISO 3166-1: `DE`. */
  readonly country?: string | undefined;
  /** The part of ISO 3166-2 after the country: `BY`. */
  readonly region?: string | undefined;
  readonly subregion?: string | undefined;
  readonly geonameId?: number | undefined;
  readonly postalCode?: string | undefined;
  readonly latitude?: number | undefined;
  readonly longitude?: number | undefined;
  readonly accuracyRadiusKm?: number | undefined;
  /** As in the IANA database: `Europe/Berlin`. */
  readonly timeZone?: string | undefined;
  readonly isInEuropeanUnion?: boolean | undefined;
  readonly isAnycast?: boolean | undefined;
  /** True if the location of the network is unknown. `country` is then the country in which the network is registered. */
  readonly isRegisteredCountry?: boolean | undefined;
  /** Number of the autonomous system. */
  readonly asn?: number | undefined;
  readonly organisation?: string | undefined;
}

/** Names of one place by language. */
export type NamesByLocale = Readonly<Record<string, PlaceNames>>;

/** The stored names of a place in several languages: once for all networks there. */
export interface StoredNames {
  readonly place: Place;
  readonly names: NamesByLocale;
}

/** The stored place of one network; `of` is the number of its {@link StoredNames}, 0 for none. */
export interface StoredPlace {
  readonly of: number;
  readonly place: Place;
  readonly names?: NamesByLocale | undefined;
}

const nameFields = ["continentName", "countryName", "regionName", "subregionName", "cityName"] as const;

/** The place for callers. Each name is in the first of `locales` that has one. */
export const composed = (
  { place, names }: StoredPlace,
  shared: StoredNames | undefined,
  locales: readonly string[],
): Place => {
  const byLocale = shared?.names ?? names ?? {};
  const found: Record<string, string> = {};
  for (const field of nameFields)
    for (const locale of locales) {
      const name = byLocale[locale]?.[field];
      if (name === undefined) continue;
      found[field] = name;
      break;
    }
  return Object.freeze({ ...shared?.place, ...place, ...found });
};
