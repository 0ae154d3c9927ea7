package io.github.steadlock.spring.aop;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Set;
import org.springframework.aot.hint.ExecutableMode;
import org.springframework.aot.hint.ReflectionHints;
import org.springframework.beans.factory.NoSuchBeanDefinitionException;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.ResolvableType;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.BeanReference;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.Indexer;
import org.springframework.expression.spel.ast.MethodReference;
import org.springframework.expression.spel.ast.Projection;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.Selection;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.util.ReflectionUtils;
import org.springframework.util.StringUtils;

/**
 * The reflection hints for a native image: the members that a lock's name expression reads. Follows
 * a path such as {@code #order.customer.name} or {@code @region.name()} through the declared types.
 * Stops at a type that does not declare its content, such as a raw {@code List}.
 */
final class LockNameHints {
    private static final ResolvableType ROOT = ResolvableType.forClass(LockName.Root.class);

    private final ReflectionHints hints;
    private final Method method;
    private final ConfigurableListableBeanFactory beans;

    LockNameHints(ReflectionHints hints, Method method, ConfigurableListableBeanFactory beans) {
        this.hints = hints;
        this.method = method;
        this.beans = beans;
    }

    /**
     * Registers the members that an attribute {@code name} reads. Registers nothing for an invalid
     * expression, or for one that becomes valid only with the placeholders of a later start.
     */
    void register(String source) {
        try {
            for (Expression part : LockName.expressionsOf(replaced(source))) {
                if (part instanceof SpelExpression expression) {
                    typeOf(expression.getAST(), ROOT);
                }
            }
        } catch (ParseException | IllegalStateException malformed) {
            // The start of the program reports the mistake.
        }
    }

    private String replaced(String source) {
        try {
            return beans.resolveEmbeddedValue(source);
        } catch (IllegalArgumentException unknown) {
            return source;
        }
    }

    /**
     * Returns the declared type of the value of {@code node}.
     *
     * @param owner the type of the object on which the node is evaluated
     */
    private ResolvableType typeOf(SpelNode node, ResolvableType owner) {
        if (node instanceof CompoundExpression) {
            ResolvableType type = owner;
            for (int i = 0; i < node.getChildCount(); i++) {
                type = typeOf(node.getChild(i), type);
            }
            return type;
        }
        if (node instanceof Projection || node instanceof Selection) {
            visitChildren(node, elementOf(owner));
            return node instanceof Selection ? owner : ResolvableType.NONE;
        }
        if (node instanceof Indexer) {
            visitChildren(node, ROOT);
            return elementOf(owner);
        }
        if (node instanceof VariableReference variable) {
            return variableOf(variable.toStringAST().substring(1));
        }
        if (node instanceof BeanReference bean) {
            return beanOf(bean.getName());
        }
        if (node instanceof PropertyOrFieldReference property) {
            return propertyOf(owner, property.getName());
        }
        visitChildren(node, ROOT);
        return node instanceof MethodReference call
                ? methodsOf(owner, Set.of(call.getName()))
                : ResolvableType.NONE;
    }

    private void visitChildren(SpelNode node, ResolvableType owner) {
        for (int i = 0; i < node.getChildCount(); i++) {
            typeOf(node.getChild(i), owner);
        }
    }

    private ResolvableType variableOf(String name) {
        String[] names = LockName.PARAMETERS.getParameterNames(method);
        for (int i = 0; i < method.getParameterCount(); i++) {
            if (name.equals("p" + i)
                    || name.equals("a" + i)
                    || (names != null && name.equals(names[i]))) {
                return ResolvableType.forMethodParameter(method, i);
            }
        }
        return name.equals("root") ? ROOT : ResolvableType.NONE;
    }

    private ResolvableType beanOf(String name) {
        try {
            return ResolvableType.forClass(beans.getType(name, false));
        } catch (NoSuchBeanDefinitionException none) {
            return ResolvableType.NONE;
        }
    }

    private ResolvableType propertyOf(ResolvableType owner, String name) {
        Class<?> type = owner.resolve(Object.class);
        Field field = ReflectionUtils.findField(type, name);
        if (field != null) {
            hints.registerField(field);
        }
        String capitalized = StringUtils.capitalize(name);
        ResolvableType got =
                methodsOf(owner, Set.of("get" + capitalized, "is" + capitalized, name));
        return got == ResolvableType.NONE && field != null
                ? ResolvableType.forField(field, owner)
                : got;
    }

    /**
     * Registers the public methods with these names, and returns the result type of one of them.
     */
    private ResolvableType methodsOf(ResolvableType owner, Set<String> names) {
        Class<?> type = owner.resolve(Object.class);
        ResolvableType given = ResolvableType.NONE;
        for (Method one : type.getMethods()) {
            if (names.contains(one.getName()) && !one.isBridge()) {
                hints.registerMethod(one, ExecutableMode.INVOKE);
                given = ResolvableType.forMethodReturnType(one, type);
            }
        }
        return given;
    }

    private static ResolvableType elementOf(ResolvableType several) {
        if (several.isArray()) {
            return several.getComponentType();
        }
        return several.as(Iterable.class).getGeneric(0);
    }
}
