package io.github.steadlock.spring.aop;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.VarInsnNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import org.objectweb.asm.tree.analysis.Frame;
import org.objectweb.asm.tree.analysis.SourceInterpreter;
import org.objectweb.asm.tree.analysis.SourceValue;
import org.springframework.util.ClassUtils;

/**
 * The search for calls on {@code this} in the bytecode of a class, which bypass the proxy. Only
 * calls that are certainly on {@code this} count: a call on another object of the class, such as
 * its own proxy, is no mistake.
 */
final class SelfInvocations {
    private SelfInvocations() {}

    /**
     * A call of an annotated method on {@code this}.
     *
     * @param caller the method that makes the call; for a lambda, the method that contains it
     * @param callee the name and descriptor of the called method
     */
    record Call(String caller, String callee) {}

    /**
     * Returns the calls in {@code type} and its superclasses. Ignores class files that cannot be
     * read, because the result is only for warnings.
     *
     * @param annotated the names and descriptors of the annotated methods
     */
    static Set<Call> in(Class<?> type, Set<String> annotated) {
        Set<Call> calls = new LinkedHashSet<>();
        for (Class<?> one = type; one != null && one != Object.class; one = one.getSuperclass()) {
            ClassNode node = read(one);
            if (node != null) {
                Set<String> family = namesOfFamily(type);
                node.methods.forEach(method -> addCalls(node, method, family, annotated, calls));
            }
        }
        return calls;
    }

    private static ClassNode read(Class<?> type) {
        try (InputStream file = type.getResourceAsStream(ClassUtils.getClassFileName(type))) {
            if (file == null) {
                return null;
            }
            ClassNode node = new ClassNode();
            new ClassReader(file).accept(node, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
            return node;
        } catch (IOException | RuntimeException unreadable) {
            return null; // Too new for this library, or missing at run time.
        }
    }

    private static Set<String> namesOfFamily(Class<?> type) {
        Set<String> names = new LinkedHashSet<>();
        for (Class<?> one = type; one != null; one = one.getSuperclass()) {
            names.add(Type.getInternalName(one));
        }
        ClassUtils.getAllInterfacesForClassAsSet(type)
                .forEach(one -> names.add(Type.getInternalName(one)));
        return names;
    }

    private static void addCalls(
            ClassNode type,
            MethodNode method,
            Set<String> family,
            Set<String> annotated,
            Set<Call> calls) {
        boolean isOfObject = (method.access & Opcodes.ACC_STATIC) == 0;
        boolean isBridge = (method.access & Opcodes.ACC_BRIDGE) != 0;
        if (!isOfObject || isBridge || !mentions(method, annotated)) {
            return;
        }
        try {
            Frame<SourceValue>[] frames =
                    new Analyzer<>(new SourceInterpreter()).analyze(type.name, method);
            for (int i = 0; i < frames.length; i++) {
                AbstractInsnNode instruction = method.instructions.get(i);
                String callee = calleeOf(instruction, family);
                if (callee != null
                        && annotated.contains(callee)
                        && frames[i] != null
                        && isThis(receiverOf(instruction, frames[i]))) {
                    calls.add(new Call(writtenIn(method.name), callee));
                }
            }
        } catch (AnalyzerException | RuntimeException unreadable) {
            // Ignored, like a class file that cannot be read.
        }
    }

    /**
     * Returns whether the method calls an annotated one at all. Most methods do not, so they need
     * no analysis.
     */
    private static boolean mentions(MethodNode method, Set<String> annotated) {
        for (AbstractInsnNode instruction : method.instructions) {
            String callee = calleeOf(instruction, null);
            if (callee != null && annotated.contains(callee)) {
                return true;
            }
        }
        return false;
    }

    /**
     * @param family the names of the classes whose methods count; null for all
     */
    private static String calleeOf(AbstractInsnNode instruction, Set<String> family) {
        if (instruction instanceof MethodInsnNode call
                && call.getOpcode() != Opcodes.INVOKESTATIC) {
            // A call by super calls a method that the class of the bean overrides.
            boolean isSuper = call.getOpcode() == Opcodes.INVOKESPECIAL;
            return !isSuper && (family == null || family.contains(call.owner))
                    ? call.name + call.desc
                    : null;
        }
        if (instruction instanceof InvokeDynamicInsnNode reference) {
            return Arrays.stream(reference.bsmArgs)
                    .filter(Handle.class::isInstance)
                    .map(Handle.class::cast)
                    .filter(handle -> handle.getTag() != Opcodes.H_INVOKESTATIC)
                    .filter(handle -> family == null || family.contains(handle.getOwner()))
                    .map(handle -> handle.getName() + handle.getDesc())
                    .findFirst()
                    .orElse(null);
        }
        return null;
    }

    /** Returns the receiver of a call, or null if there is none, as in {@code Shop::buy}. */
    private static SourceValue receiverOf(AbstractInsnNode instruction, Frame<SourceValue> frame) {
        String descriptor =
                instruction instanceof MethodInsnNode call
                        ? call.desc
                        : ((InvokeDynamicInsnNode) instruction).desc;
        int arguments = Type.getArgumentTypes(descriptor).length;
        // The first captured value of a method reference is its receiver.
        int depth = instruction instanceof MethodInsnNode ? arguments + 1 : arguments;
        return depth == 0 ? null : frame.getStack(frame.getStackSize() - depth);
    }

    private static boolean isThis(SourceValue value) {
        if (value == null || value.insns.isEmpty()) {
            return false;
        }
        List<AbstractInsnNode> sources = new ArrayList<>(value.insns);
        return sources.stream()
                .allMatch(
                        source ->
                                source instanceof VarInsnNode load
                                        && load.getOpcode() == Opcodes.ALOAD
                                        && load.var == 0);
    }

    /**
     * Returns the name of the method that contains a lambda. Java names lambdas {@code
     * lambda$caller$0}, Kotlin {@code caller$lambda$0}.
     */
    private static String writtenIn(String method) {
        if (method.startsWith("lambda$")) {
            return method.substring(
                    "lambda$".length(), Math.max(method.lastIndexOf('$'), "lambda$".length()));
        }
        int lambda = method.indexOf("$lambda");
        return lambda > 0 ? method.substring(0, lambda) : method;
    }
}
