package io.leasehold

class CoroutineOnMemoryTest : CoroutineBehaviour() {
    override val url = "memory://"
}
