// How the end of an attempt is written.
import { t } from '../text/t'

const causes: Record<string, string> = {
  away: t('the other system could not be reached'),
  permanent: t('not retried, because a retry cannot help'),
}

/** Returns the meaning of a cause, if neither the state nor the exit code shows it. */
export const causeText = (cause: string | null): string => causes[cause ?? ''] ?? ''
