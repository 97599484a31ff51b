/**
 * Work that may be too long for one turn of the event loop, cut into steps that take well below a millisecond each.
 * Whoever runs it decides when the next step comes, and may drop the rest: nothing shows before the last one.
 */
export type Steps<T> = Generator<undefined, T, undefined>

/** Runs all steps at once. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (!step.done) step = steps.next()
  return step.value
}

/** The same steps; adds to `took` what they take, without what happens between them. */
export function* timed<T>(steps: Steps<T>, now: () => number, took: { milliseconds: number }): Steps<T> {
  for (;;) {
    const started = now()
    const step = steps.next()
    took.milliseconds += now() - started
    if (step.done) return step.value
    yield
  }
}
