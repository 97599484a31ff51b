import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { KeyFacts, KeyRequest } from '../../src/key/key-source.ts'

/** A real request object that no one sent, with the given fields. */
export function requestWith(fields: Partial<KeyRequest>): KeyRequest {
  return Object.assign(new IncomingMessage(new Socket()), fields)
}

export function factsWith({
  address = '192.0.2.1',
  json,
}: {
  address?: string
  json?: unknown
} = {}): KeyFacts {
  return { clientAddress: () => address, jsonBody: () => json }
}
