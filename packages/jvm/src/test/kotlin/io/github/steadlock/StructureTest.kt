package io.github.steadlock

import com.tngtech.archunit.core.domain.JavaClass
import com.tngtech.archunit.core.domain.JavaCodeUnit
import com.tngtech.archunit.core.domain.JavaMember
import com.tngtech.archunit.core.domain.JavaModifier
import com.tngtech.archunit.core.importer.ClassFileImporter
import com.tngtech.archunit.core.importer.ImportOption
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.jvm.optionals.getOrNull

/**
 * Checks that no source file imports itself through a chain of other files. A file imports another if it creates an
 * object of one of its classes, calls a function of it that needs no object, names an object or a class of it, or
 * extends one. Using a type and calling methods of an object that was passed in is no import, like `import type` in
 * TypeScript. The compiler copies a `const val` and an `inline fun` to the places of their use, so these imports are
 * not visible here.
 */
class StructureTest {
    @Test
    fun `source files have no circular imports`() {
        val why = "if the code named below is gone, its class is left over in target/classes"
        assertEquals(emptyList<String>(), circles().map(::drawn), why)
    }

    @Test
    fun `a constructor call counts as an import, a type does not`() {
        val ofHeldLease = imports.getValue("io.github.steadlock.internal/HeldLease.kt").keys
        assertTrue("io.github.steadlock/Lease.kt" in ofHeldLease, "$ofHeldLease")
        assertTrue("io.github.steadlock.internal/Engine.kt" !in ofHeldLease, "$ofHeldLease")
    }

    /** Returns the shortest circle through each file that has one, each circle once. */
    private fun circles(): List<List<String>> = imports.keys.mapNotNull(::circle).distinctBy { it.toSet() }

    private fun circle(start: String): List<String>? {
        val before = mutableMapOf<String, String>()
        val waiting = ArrayDeque(listOf(start))
        while (waiting.isNotEmpty()) {
            val file = waiting.removeFirst()
            for (imported in imports[file].orEmpty().keys) {
                if (before.putIfAbsent(imported, file) == null) waiting.add(imported)
            }
        }
        val last = before[start] ?: return null
        return generateSequence(last) { before.getValue(it) }.takeWhile { it != start }.toList().reversed().let {
            listOf(start) + it
        }
    }

    private fun drawn(circle: List<String>): String =
        circle.indices.joinToString("", "a circle of imports: ${circle.joinToString(" → ")}") { place ->
            "\n  " + imports.getValue(circle[place]).getValue(circle[(place + 1) % circle.size])
        }

    /** For each file, the files that it imports, and one place of each import. */
    private val imports: Map<String, Map<String, String>> by lazy {
        val classes =
            ClassFileImporter()
                .withImportOption(ImportOption.DoNotIncludeTests())
                .importPackages("io.github.steadlock")
                .filterNot { it.packageName.startsWith("io.github.steadlock.internal.uniffi") }
        val imports = classes.associate { file(it) to mutableMapOf<String, String>() }
        for (origin in classes) {
            for ((target, place) in importsOf(origin)) {
                if (file(target) in imports && file(target) != file(origin)) {
                    imports.getValue(file(origin)).putIfAbsent(file(target), place)
                }
            }
        }
        imports
    }

    private fun importsOf(origin: JavaClass): List<Pair<JavaClass, String>> {
        val supertypes = origin.rawInterfaces + listOfNotNull(origin.rawSuperclass.getOrNull())
        val members =
            (origin.accessesFromSelf + origin.codeUnitReferencesFromSelf).filter {
                it.target.resolveMember().getOrNull()?.needsNoObject() == true
            }
        return supertypes.map { it to "${origin.name} extends ${it.name}" } +
            members.map { it.targetOwner to it.description } +
            origin.instanceofChecks.map {
                it.rawType to
                    "${it.owner.description} asks for <${it.rawType.name}> in ${it.sourceCodeLocation}"
            } +
            origin.referencedClassObjects.map {
                it.rawType to
                    "${it.owner.description} names <${it.rawType.name}> in ${it.sourceCodeLocation}"
            }
    }

    private fun JavaMember.needsNoObject(): Boolean =
        when {
            this is JavaCodeUnit && isConstructor -> true
            JavaModifier.STATIC !in modifiers -> false
            // For a method whose parameters have defaults, the compiler makes a static method that gets the object as
            // its first parameter.
            this is JavaCodeUnit && name.endsWith("\$default") -> rawParameterTypes.firstOrNull() != owner
            else -> true
        }

    private fun file(of: JavaClass): String =
        "${of.packageName}/${of.source.flatMap { it.fileName }.orElse(of.simpleName)}"
}
