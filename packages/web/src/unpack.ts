/** Unpacks the core from a script, where it is gzipped and in Base64. */
export async function unpack(packed: string): Promise<BufferSource> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}
