package io.leasehold.internal

import io.leasehold.InvalidArgumentException
import java.nio.CharBuffer
import java.nio.charset.CharacterCodingException

/** A lock's name, as text and as the bytes that the native part takes. The core checks all else. */
internal class LockKey(val text: String) {
    val bytes: ByteArray = encode(text)

    private companion object {
        /** `String.toByteArray` would turn half a surrogate pair into `?`, and so into another lock's name. */
        private fun encode(text: String): ByteArray {
            val encoded =
                try {
                    Charsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text))
                } catch (_: CharacterCodingException) {
                    val message = "acquire: the name holds half a surrogate pair and has no UTF-8 form"
                    throw InvalidArgumentException(message, null, "acquire")
                }
            return ByteArray(encoded.remaining()).also(encoded::get)
        }
    }
}
