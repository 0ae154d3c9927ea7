declare module 'cloudflare:sockets' {
  interface Socket {
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable: WritableStream<Uint8Array>;
    close(): Promise<void>;
  }

  export function connect(
    address: { hostname: string; port: number },
    options: { secureTransport: 'on' | 'off' },
  ): Socket;
}
