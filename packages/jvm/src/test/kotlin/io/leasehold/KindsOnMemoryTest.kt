package io.leasehold

import java.util.UUID

class KindsOnMemoryTest : KindBehaviour() {
    override val url = "memory://${UUID.randomUUID()}"
}
