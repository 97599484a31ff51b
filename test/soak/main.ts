// One gateway in a process of its own under steady traffic, while its topology changes at random and faults come and go.
// Prints a line every 10 s and a verdict; ends with 1 when something grows, stays behind, or is lost. Arguments: minutes,
// seed.
import { setTimeout as sleep } from 'node:timers/promises'
import { startEtcd } from '../support/etcd.ts'
import { GatewayProcess } from '../support/gateway-process.ts'
import { seededRandom } from '../support/manual-clock.ts'
import { Relay } from '../support/relay.ts'
import { Traffic } from '../support/traffic.ts'
import { UpstreamProcess } from '../support/upstream-process.ts'
import { Commotion } from './commotion.ts'
import { Ledger } from './ledger.ts'

const [, , minutes = '', seed = ''] = process.argv
const prefix = '/consistent-hash-proxy/soak/'
const perSecond = 200
const reportEveryMs = 10_000

const etcd = await startEtcd()
const relay = await Relay.start(Number(new URL(etcd.endpoint).port))
const upstreams = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((id) => UpstreamProcess.start(id)))
const commotion = new Commotion({ etcd, relay, upstreams, prefix, random: seededRandom(Number(seed)) })
await commotion.registerAll()
const gateway = await GatewayProcess.start({
  etcd: { hosts: relay.url, prefix, gracePeriodMs: 5_000 },
  timeouts: { firstByteMs: 1_000 },
  circuitBreaker: { openMs: 1_000, maxOpenMs: 5_000 },
  slowStart: { durationMs: 5_000 },
})
await gateway.until(({ present }) => present === upstreams.length)
const ledger = new Ledger()
console.log(`soak of ${minutes} min, seed ${seed}, ${perSecond} requests/s`)

const started = performance.now()
const end = started + Number(minutes) * 60_000
let firstNumber = 0
while (performance.now() < end) {
  const traffic = new Traffic({ ports: [gateway.port], perSecond, firstNumber })
  const until = Math.min(end, performance.now() + reportEveryMs)
  while (performance.now() < until) await commotion.once()
  await commotion.calm()
  await gateway.until(({ present }) => present === upstreams.length) // it converges, or this throws
  const account = await traffic.stop(upstreams)
  firstNumber += account.sent
  await sleep(500) // what ends behind its answer
  console.log(ledger.take((performance.now() - started) / 1_000, account, await gateway.report()))
}
const faults = ledger.verdict()
console.log(faults.length === 0 ? `holds: ${commotion.summary()}` : `does not hold (seed ${seed}):`)
for (const fault of faults) console.log(`- ${fault}`)

await gateway.kill()
relay.close()
await Promise.all([etcd.stop(), ...upstreams.map((upstream) => upstream.stop())])
process.exitCode = faults.length === 0 ? 0 : 1
