package io.github.steadlock.internal

/** The address of the server and the login, in parts. [toString] hides them, because they contain a password. */
internal data class ServerParts(
    val host: String? = null,
    val port: Int? = null,
    val username: String? = null,
    val password: String? = null,
    val database: Int? = null,
) {
    override fun toString(): String = "ServerParts(..)"

    /**
     * Checks the parts and returns them as a URL. Special characters are escaped, so that the core takes no part for
     * another.
     */
    fun toUrl(): String {
        refuse(host?.isEmpty() == true) { "the host is empty; give its name or address, or leave it out" }
        refuse(host?.count { it == ':' } == 1) { "the host has a colon; give the port by itself" }
        refuse(port != null && port !in 1..PORTS) { "the port $port is out of range; give 1 to $PORTS" }
        refuse(database != null && database < 0) { "the database $database is out of range; give 0 or more" }
        refuse(username != null && password == null) { "there is a username but no password; give both" }
        val user = if (password == null) "" else "${escaped(username.orEmpty())}:${escaped(password)}@"
        val address = host ?: "localhost"
        // A colon means an IPv6 address.
        val place = if (':' in address) "[${address.removeSurrounding("[", "]")}]" else escaped(address)
        return "redis://$user$place:${port ?: DEFAULT_PORT}/${database ?: 0}"
    }

    private companion object {
        const val PORTS = 65_535
        const val DEFAULT_PORT = 6379
    }
}

/** Returns these options with the URL of [server]. */
internal fun ClientOptions.at(server: ServerParts?): ClientOptions {
    if (server == null) return this
    refuse("url" in values) {
        "the server is named by a URL and by host, port, username, password or database; give one"
    }
    refuse("primaries" in values) {
        "the servers are named by primaries; leave out host, port, username, password, database"
    }
    return with("url", server.toUrl())
}

private fun escaped(part: String): String =
    part.toByteArray().joinToString("") { byte ->
        val char = byte.toInt().toChar()
        if (byte > 0 && (char.isLetterOrDigit() || char in "-._~")) "$char" else "%%%02X".format(byte)
    }

private inline fun refuse(isWrong: Boolean, why: () -> String) {
    if (isWrong) throw invalidArgument("connect: ${why()}", null, "connect")
}
