import { optionsSchema } from '../../src/config.ts'

/** What a breaker is set to when nothing else is asked for. */
export const circuitBreakerDefaults = optionsSchema.shape.circuitBreaker.parse({})
