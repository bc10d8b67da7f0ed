// How the end of an attempt is written.

const causes: Record<string, string> = {
  away: 'the other system could not be reached',
  permanent: 'not retried, because a retry cannot help',
}

/** Says what a cause means, if neither the state nor the exit code says so. */
export const causeText = (cause: string | null): string => causes[cause ?? ''] ?? ''
