package io.github.steadlock.internal

/** The metrics of a client, parsed from its text for Prometheus, without the buckets of histograms. */
internal class Exposition(text: String) {
    val families: List<Family>
    val samples: List<Sample>

    init {
        val (heads, numbers) = text.split('\n').filter(String::isNotEmpty).partition { it.startsWith("# ") }
        val words = heads.map { it.split(' ', limit = 4).drop(1) }
        val meanings = words.filter { it[0] == "HELP" }.associate { it[1] to it[2] }
        families = words.filter { it[0] == "TYPE" }.map { Family(it[1], it[2], meanings[it[1]].orEmpty()) }
        samples = numbers.map(::sampleOf).filterNot { it.name.endsWith("_bucket") }
    }

    private fun sampleOf(line: String): Sample {
        val (id, number) = line.substringBeforeLast(' ') to line.substringAfterLast(' ')
        val labels = LABEL.findAll(id).associate {
            it.groupValues[1] to it.groupValues[2].replace(ESCAPED, ::unescaped)
        }
        return Sample(id, id.substringBefore('{'), labels, number.toDouble())
    }

    private fun unescaped(found: MatchResult): String = if (found.value == "\\n") "\n" else found.value.drop(1)

    private companion object {
        val LABEL = Regex("""(\w+)="((?:[^"\\]|\\.)*)"""")
        val ESCAPED = Regex("""\\.""")
    }
}

/** One metric. [type] is `counter`, `gauge` or `histogram`. */
internal class Family(val name: String, val type: String, val meaning: String)

/** One number of a metric. [id] is its [name] with all labels, as in the text. */
internal class Sample(val id: String, val name: String, val labels: Map<String, String>, val value: Double)
