// Runs an example on a checkout as it was cloned: `node scripts/start.mjs gateway` (or `upstream`).
import { argv, exit } from 'node:process'
import { prepare } from './prepare.mjs'

const [, , example] = argv
try {
  prepare()
} catch (error) {
  console.error(error.message)
  exit(1)
}
// In this very process: what npm is told to stop is then what stops.
await import(`../examples/dist/${example}.js`)
