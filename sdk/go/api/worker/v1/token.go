package workerv1

// TokensOfEra is the number of tokens that a task has in each era of the database. A token is era ×
// TokensOfEra + the number of the attempt.
const TokensOfEra = 1 << 20
