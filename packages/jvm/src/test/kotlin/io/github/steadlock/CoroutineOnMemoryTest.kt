package io.github.steadlock

class CoroutineOnMemoryTest : CoroutineBehaviour() {
    override val url = "memory://"
}
