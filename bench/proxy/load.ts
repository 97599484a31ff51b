import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'

/** Requests of one kind, with the keys that they carry in turn. */
export interface Requests {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly bodyBytes: number
  readonly keys: readonly string[]
}

/** What clients saw. Milliseconds. */
export interface LoadResult {
  readonly requests: number
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Keep-alive connections that ask all the time: all that a load generator here is for. */
export interface LoadGenerator {
  readonly name: string
  /**
   * @throws Error when any request failed: a proxy that refuses is not a fast one
   */
  run(port: number, requests: Requests, seconds: number): Promise<LoadResult>
}

export const connections = 64

/** `wrk` where it is installed: it leaves the most of a machine to the proxy. */
export function findLoadGenerator(): LoadGenerator {
  return spawnSync('wrk', ['-v']).error ? autocannonLoad : wrkLoad
}

const wrkLoad: LoadGenerator = {
  name: 'wrk',
  async run(port, requests, seconds) {
    const folder = await mkdtemp(join(tmpdir(), 'bench-'))
    try {
      const script = join(folder, 'requests.lua')
      await writeFile(script, wrkScript(requests))
      const words = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, `http://127.0.0.1:${port}`]
      const { stdout } = await promisify(execFile)('wrk', words)
      const [, requestCount, microseconds, p50, p99, errors] = (
        /^result (\d+) (\d+) (\d+) (\d+) (\d+)$/m.exec(stdout) ?? []
      ).map(Number)
      if (errors !== 0 || !requestCount || !microseconds) throw new Error(`wrk saw errors: ${stdout}`)
      return {
        requests: requestCount,
        requestsPerSecond: requestCount / (microseconds / 1e6),
        p50Ms: Number(p50) / 1000,
        p99Ms: Number(p99) / 1000,
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  },
}

/** All requests are made before the first is sent, so that `wrk` only picks the next. */
function wrkScript({ method, path, bodyBytes, keys }: Requests): string {
  return `
local keys = {${keys.map((key) => JSON.stringify(key)).join(',')}}
local requests = {}
local turn = 0
function init()
  local body = ${bodyBytes > 0 ? `string.rep('x', ${bodyBytes})` : 'nil'}
  for index, key in ipairs(keys) do
    requests[index] = wrk.format('${method}', '${path}', { ['x-user-id'] = key, ['accept'] = '*/*' }, body)
  end
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
function done(summary, latency)
  local e = summary.errors
  print(string.format('result %d %d %d %d %d', summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`
}

const autocannonLoad: LoadGenerator = {
  name: 'autocannon',
  async run(port, { method, path, bodyBytes, keys }, seconds) {
    const body = bodyBytes > 0 ? 'x'.repeat(bodyBytes) : undefined
    const result = await autocannon({
      url: `http://127.0.0.1:${port}`,
      connections,
      duration: seconds,
      requests: keys.map((key) => ({
        ...{ method, path, headers: { 'x-user-id': key, accept: '*/*' } },
        ...(body === undefined ? {} : { body }),
      })),
    })
    if (result.errors + result.non2xx > 0) {
      throw new Error(`autocannon saw ${result.errors} errors and ${result.non2xx} bad answers`)
    }
    return {
      requests: result.requests.total,
      requestsPerSecond: result.requests.total / result.duration,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
    }
  },
}
