/** The digest of all that the build is made from. */
export function sourceDigest(): string;
