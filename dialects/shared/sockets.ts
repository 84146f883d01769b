/**
 * How the platform names the failures of a connection, whichever driver passes them on.
 *
 * @module
 */

/** The codes of connections that could not be made, or broke. */
export const socketFailures: readonly string[] = [
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
];
