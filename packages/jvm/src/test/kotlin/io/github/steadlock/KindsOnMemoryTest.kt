package io.github.steadlock

import java.util.UUID

class KindsOnMemoryTest : KindBehaviour() {
    override val url = "memory://${UUID.randomUUID()}"
}
