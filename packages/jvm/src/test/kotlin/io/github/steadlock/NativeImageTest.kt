package io.github.steadlock

import com.google.gson.JsonObject
import com.google.gson.JsonParser
import com.sun.jna.Callback
import com.sun.jna.Platform
import com.sun.jna.Structure
import com.tngtech.archunit.core.importer.ClassFileImporter
import com.tngtech.archunit.core.importer.ImportOption
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.lang.reflect.Method
import java.lang.reflect.Modifier

/** Tests that GraalVM's metadata lists all classes that JNA reaches by reflection, and no others. */
class NativeImageTest {
    private val metadata = parsed("META-INF/native-image/io.github.steadlock/steadlock/reachability-metadata.json")
    private val types = metadata["reflection"].asJsonArray.map { it.asJsonObject }.associateBy { it["type"].asString }

    @Test
    fun `the metadata has the classes with native methods and their parameters`() {
        val owners =
            ClassFileImporter()
                .withImportOption(ImportOption.DoNotIncludeTests())
                .importPackages("io.github.steadlock")
                .map { Class.forName(it.name, false, javaClass.classLoader) }
                .filter { it.declaredMethods.any(::isNative) }
        val crossing =
            owners
                .flatMap { it.declaredMethods.filter(::isNative) }
                .flatMap { it.parameterTypes.asList() + it.returnType }
                .filter { it.name.startsWith("io.github.steadlock") }
        val structures = crossing.filter { Structure::class.java.isAssignableFrom(it) }
        val fields = structures.flatMap { it.fields.asList() }.filterNot { Modifier.isStatic(it.modifiers) }
        val inside = fields.map { it.type } + structures.map { it.superclass }
        val reached = owners + crossing + inside.filter { it.name.startsWith("io.github.steadlock") }
        assertEquals(reached.map { it.name }.toSortedSet(), types.keys.toSortedSet())
    }

    @Test
    fun `structures, native methods and callbacks are accessible`() {
        for ((name, entry) in types) {
            val type = Class.forName(name, false, javaClass.classLoader)
            val needed =
                when {
                    Structure::class.java.isAssignableFrom(type) ->
                        listOf("allDeclaredConstructors", "allDeclaredFields", "jniAccessible")

                    Callback::class.java.isAssignableFrom(type) -> listOf("allDeclaredMethods")
                    else -> listOf("allDeclaredMethods", "jniAccessible")
                }
            assertTrue(needed.all { entry[it]?.asBoolean == true }, "$entry")
        }
    }

    @Test
    fun `the native library of this platform is among the resources`() {
        val library = "${Platform.RESOURCE_PREFIX}/${System.mapLibraryName("steadlock_jvm")}"
        val globs = metadata["resources"].asJsonArray.map { it.asJsonObject["glob"].asString }
        if (Platform.isLinux()) assertTrue(library in globs, "$globs")
    }

    private fun isNative(method: Method) = Modifier.isNative(method.modifiers)

    private fun parsed(resource: String): JsonObject =
        javaClass.classLoader.getResourceAsStream(resource)!!.reader().use { JsonParser.parseReader(it).asJsonObject }
}
