/** Where to go on in a file. */
export interface Position {
  /** Text bytes before it: after inflating, where the content is gzip. */
  readonly offset: number;
  /** Reading begins again at this stored byte … */
  readonly stored: number;
  /** … and drops so many text bytes. */
  readonly skip: number;
  /** CRC-32 of the text before `offset`. */
  readonly crc: number;
}

export const start: Position = { offset: 0, stored: 0, skip: 0, crc: 0 };

export const formatPosition = ({ offset, stored, skip, crc }: Position): string =>
  `${String(offset)}:${String(stored)}:${String(skip)}:${String(crc)}`;

export const parsePosition = (text: string): Position => {
  const [offset = 0, stored = 0, skip = 0, crc = 0] = text.split(":").map(Number);
  return { offset, stored, skip, crc };
};

/**
 * Knows for each text offset where reading can begin: at the last place before it that was noted. Of plain content every byte is such a
 * place; of gzip content each start of a member.
 */
export class Restarts {
  readonly #isPlain: boolean;
  #places: { readonly stored: number; readonly text: number }[] = [];

  constructor(isPlain: boolean) {
    this.#isPlain = isPlain;
  }

  note(stored: number, text: number): void {
    if (!this.#isPlain) this.#places.push({ stored, text });
  }

  /** The position at `offset`. Offsets are asked for in ascending order. */
  at(offset: number, crc: number): Position {
    if (this.#isPlain) return { offset, stored: offset, skip: 0, crc };
    while (this.#places.length > 1 && this.#places[1]!.text <= offset) this.#places.shift();
    const [place = { stored: 0, text: 0 }] = this.#places;
    return { offset, stored: place.stored, skip: offset - place.text, crc };
  }
}
