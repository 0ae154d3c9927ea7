package io.github.steadlock

import java.util.UUID

class LockOnMemoryTest : LockBehaviour() {
    override val url = "memory://${UUID.randomUUID()}"
}
