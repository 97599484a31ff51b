import type { AddressInfo, Server } from 'node:net'
import type { Greeting } from './child.ts'

/** The child's side of `Child`: starts servers on free ports, answers what is asked, and ends when the parent does. */
export async function greet(createServers: () => Promise<readonly Server[]>): Promise<void> {
  process.on('disconnect', () => process.exit())
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.(user + system)
  })
  process.send?.(await open(createServers))
}

async function open(createServers: () => Promise<readonly Server[]>): Promise<Greeting> {
  try {
    return { ports: await Promise.all((await createServers()).map(listen)) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}
