import { Child } from './child.ts'
import type { ProxySettings } from './proxy-settings.ts'

/** A proxy to be measured. */
export interface Contender {
  readonly name: string
  /** @throws Error that says why it cannot be measured here */
  start(upstreams: readonly number[]): Promise<RunningProxy>
}

export interface RunningProxy {
  readonly port: number
  /** User and system time of the proxy's process since its start. */
  cpuMicroseconds(): Promise<number>
  stop(): Promise<void>
}

/** A proxy that is a program of this folder. */
export function nodeContender(
  name: string,
  settings: Omit<ProxySettings, 'upstreams'>,
  nodeFlags: readonly string[] = [],
): Contender {
  return {
    name,
    async start(upstreams) {
      const child = await Child.start('proxy-main.ts', { ...settings, upstreams }, nodeFlags)
      const [port = 0] = child.ports
      return { port, cpuMicroseconds: () => child.cpuMicroseconds(), stop: () => child.stop() }
    },
  }
}
