import { performance } from 'node:perf_hooks'
import { consistentHashProxy } from '../src/index.ts'
import { CoreWait } from '../test/support/core-wait.ts'
import { ScriptedTopology } from '../test/support/scripted-topology.ts'
import { topologyOf } from './cluster.ts'
import { type Spread, spreadOf } from './statistics.ts'

/**
 * Milliseconds that changes of a whole proxy hold its event loop up, everything of it on: each time one in a hundred of
 * `count` upstreams leaves or comes back. `first` is the change from nothing to all of them.
 */
export async function longestBlockOfLargeChange(
  count: number,
  changes: number,
): Promise<{ first: number; changes: Spread }> {
  const source = new ScriptedTopology([{ id: 'only' }])
  const proxy = consistentHashProxy({ key: 'ip', topology: source })
  let made = 0
  proxy.on('topology', () => {
    made += 1
  })
  await proxy.ready()
  const all = topologyOf(count).upstreams
  const some = all.filter((_, index) => index % 100 !== 0)
  let revision = 1n
  const change = async (upstreams: typeof all) => {
    await new Promise((resolve) => setTimeout(resolve, 700)) // the rest behind the change before
    revision += 1n
    const topology = { ...topologyOf(0), revision, upstreams }
    const before = made
    return longestBlock(
      () => source.give(topology),
      () => made > before,
    )
  }
  const first = await change(all)
  await change(some) // what is compiled now will not be again
  const blocks: number[] = []
  for (let index = 0; index < changes; index += 1) blocks.push(await change(index % 2 === 0 ? all : some))
  await proxy.close()
  return { first, changes: spreadOf(blocks) }
}

/** Longest turn of the event loop, in milliseconds, from `begin` to a little behind `isDone`; waits for a core are off. */
async function longestBlock(begin: () => void, isDone: () => boolean): Promise<number> {
  const wait = new CoreWait()
  let longest = 0
  let turn = performance.now()
  let waited = wait.milliseconds
  begin()
  for (let after = 0; after < 10; after += isDone() ? 1 : 0) {
    await new Promise((resolve) => setImmediate(resolve))
    const now = performance.now()
    const waitedNow = wait.milliseconds
    longest = Math.max(longest, now - turn - (waitedNow - waited))
    turn = now
    waited = waitedNow
  }
  return longest
}
