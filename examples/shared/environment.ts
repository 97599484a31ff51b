import { OptionsError } from 'consistent-hash-proxy'
import { z } from 'zod'
import { StartError } from './run.ts'

/**
 * Reads environment variables; an empty one counts as not set.
 *
 * @throws StartError with one line for each bad value: its name, what was expected and what was given
 */
export function readEnvironment<Shape extends z.ZodRawShape>(variables: Shape): z.output<z.ZodObject<Shape>> {
  const given = Object.fromEntries(Object.entries(process.env).filter(([, text]) => text !== ''))
  const parsed = z.object(variables).safeParse(given)
  if (parsed.success) return parsed.data
  throw new StartError(
    parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n'),
  )
}

/** A variable that stays text. */
export const text = z.string()

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** What pino logs from. */
export const logLevel = z
  .enum(logLevels, { error: ({ input }) => expected(`one of ${logLevels.join(', ')}`, input) })
  .default('info')

/** A variable that the library itself reads: what it has against the text is what the user is told. */
export const readWith = <T>(read: (text: string) => T) =>
  z.string().transform((text, context) => {
    try {
      return read(text)
    } catch (error) {
      if (!(error instanceof OptionsError)) throw error
      context.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })

/** A variable that is a number in decimal digits; `Number` alone would read '0x10' as 16. */
export const decimal = (least: number, most: number) =>
  numeral(/^\d+(\.\d+)?$/, `a number from ${least} to ${most}`, least, most)

/** A variable that is a port; 0: any free one. */
export const port = numeral(/^\d+$/, 'a port from 0 to 65535 (0: any free one)', 0, 65_535)

/** How many milliseconds requests in flight have to end once the program is told to stop. */
export const drainMs = numeral(/^\d+$/, 'milliseconds from 0 to 600000', 0, 600_000).default(10_000)

function numeral(form: RegExp, what: string, least: number, most: number) {
  return z.string().transform((text, context) => {
    const value = Number(text)
    if (form.test(text) && value >= least && value <= most) return value
    context.addIssue({ code: 'custom', message: expected(what, text) })
    return z.NEVER
  })
}

const expected = (what: string, given: unknown) => `expected ${what}, got '${given}'`
