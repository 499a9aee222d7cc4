/** A place in a file at which reading continues. */
export interface Position {
  /** Text bytes before it. For gzip content they are counted after inflating. */
  readonly offset: number;
  /** Reading restarts at this stored byte … */
  readonly stored: number;
  /** … and drops this many text bytes. */
  readonly skip: number;
  /** CRC-32 of the text before `offset`. */
  readonly crc: number;
}
