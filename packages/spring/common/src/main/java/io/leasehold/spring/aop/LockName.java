package io.leasehold.spring.aop;

import io.leasehold.spring.InvalidAnnotationException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.Indexer;
import org.springframework.expression.spel.ast.OpPlus;
import org.springframework.expression.spel.ast.Projection;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.Selection;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.ObjectUtils;

/**
 * The names of a lock as the annotation's expression gives them. Parsed once; what cannot work is
 * refused then.
 */
final class LockName {
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final ParameterNameDiscoverer PARAMETERS = new DefaultParameterNameDiscoverer();
    private static final Set<String> ROOT =
            Set.of("method", "methodName", "target", "targetClass", "args");

    private final String where;
    private final Method method;
    private final BeanFactoryResolver beans;
    private final List<Part> parts = new ArrayList<>();

    /**
     * @param where the method as messages name it
     * @param source the attribute, its placeholders not yet replaced
     * @throws InvalidAnnotationException if no name can come of it
     */
    LockName(
            String where,
            Method method,
            String source,
            ConfigurableListableBeanFactory beanFactory) {
        this.where = where;
        this.method = method;
        this.beans = new BeanFactoryResolver(beanFactory);
        for (Expression expression : partsOf(parse(source, replaced(source, beanFactory)))) {
            List<SpelNode> operands = new ArrayList<>();
            if (expression instanceof SpelExpression spel) {
                check(source, spel.getAST());
                addOperands(spel.getAST(), operands);
            }
            parts.add(
                    new Part(
                            expression,
                            operands.stream()
                                    .map(SpelNode::toStringAST)
                                    .map(PARSER::parseRaw)
                                    .toList()));
        }
    }

    /**
     * The names for one call, each once.
     *
     * @throws IllegalArgumentException if there is none, or if null or nothing is in place of one
     */
    List<String> of(Object target, Class<?> targetClass, Object[] arguments) {
        var root = new Root(method, target, targetClass, arguments);
        var context = new MethodBasedEvaluationContext(root, method, arguments, PARAMETERS);
        context.setBeanResolver(beans);
        Object value = parts.size() == 1 ? parts.get(0).valueIn(context) : joined(context);
        Set<String> names = new LinkedHashSet<>();
        for (Object one : severalOf(value)) {
            names.add(checked(one));
        }
        if (names.isEmpty()) {
            throw new IllegalArgumentException(
                    where + ": name gives no lock, as its collection is empty");
        }
        return List.copyOf(names);
    }

    private String joined(MethodBasedEvaluationContext context) {
        var name = new StringBuilder();
        for (Part part : parts) {
            Object value = part.valueIn(context);
            if (value == null) {
                throw missing(part.expression.getExpressionString());
            }
            name.append(value);
        }
        return name.toString();
    }

    private String checked(Object value) {
        String name = value == null ? "" : value.toString();
        if (name.isEmpty()) {
            throw new IllegalArgumentException(
                    where
                            + ": name gives "
                            + (value == null ? "null" : "an empty text")
                            + ", which is no lock's name");
        }
        return name;
    }

    private IllegalArgumentException missing(String what) {
        return new IllegalArgumentException(
                where
                        + ": "
                        + what
                        + " in name is null, and all calls without it would share one lock");
    }

    private static Collection<?> severalOf(Object value) {
        if (value instanceof Collection<?> several) {
            return several;
        }
        if (value != null && value.getClass().isArray()) {
            return Arrays.asList(ObjectUtils.toObjectArray(value));
        }
        if (value instanceof Iterable<?> several) {
            List<Object> names = new ArrayList<>();
            several.forEach(names::add);
            return names;
        }
        return Arrays.asList(value);
    }

    private String replaced(String source, ConfigurableListableBeanFactory beanFactory) {
        try {
            return beanFactory.resolveEmbeddedValue(source);
        } catch (IllegalArgumentException unknown) {
            throw new InvalidAnnotationException(
                    where + ": name = \"" + source + "\": " + unknown.getMessage(), unknown);
        }
    }

    private Expression parse(String source, String replaced) {
        if (replaced == null || replaced.isBlank()) {
            throw new InvalidAnnotationException(
                    where + ": name is empty; write name = \"'stock'\" or an expression");
        }
        try {
            return replaced.contains("#{")
                    ? PARSER.parseExpression(replaced, new TemplateParserContext())
                    : PARSER.parseExpression(replaced);
        } catch (ParseException | IllegalStateException malformed) {
            throw new InvalidAnnotationException(
                    where
                            + ": name = \""
                            + source
                            + "\" is no expression: "
                            + malformed.getMessage()
                            + "; a literal is quoted: name = \"'stock'\"",
                    malformed);
        }
    }

    private static List<Expression> partsOf(Expression expression) {
        return expression instanceof CompositeStringExpression several
                ? List.of(several.getExpressions())
                : List.of(expression);
    }

    /**
     * Refuses a word that nothing answers to: SpEL would find out at the first call, or take null
     * for it.
     */
    private void check(String source, SpelNode node) {
        if (node instanceof PropertyOrFieldReference word && !ROOT.contains(word.getName())) {
            throw new InvalidAnnotationException(
                    where
                            + ": name = \""
                            + source
                            + "\" reads a property "
                            + word.getName()
                            + ", which there is not; a literal is quoted: name = \"'"
                            + word.getName()
                            + "'\", and an argument has a #: #"
                            + word.getName());
        }
        if (node instanceof VariableReference variable) {
            checkVariable(source, variable.toStringAST().substring(1));
        }
        // Words inside of these are of another object than the root.
        if (node instanceof Projection || node instanceof Selection || node instanceof Indexer) {
            return;
        }
        int count = node instanceof CompoundExpression ? 1 : node.getChildCount();
        for (int i = 0; i < count; i++) {
            check(source, node.getChild(i));
        }
    }

    private void checkVariable(String source, String name) {
        Set<String> known = new HashSet<>(Set.of("root", "this"));
        int count =
                method.getParameterCount() - (KotlinDetector.isSuspendingFunction(method) ? 1 : 0);
        String[] names = PARAMETERS.getParameterNames(method);
        for (int i = 0; i < count; i++) {
            known.add("p" + i);
            known.add("a" + i);
            if (names != null && names[i] != null) {
                known.add(names[i]);
            }
        }
        if (!known.contains(name)) {
            throw new InvalidAnnotationException(
                    where
                            + ": name = \""
                            + source
                            + "\" reads an argument #"
                            + name
                            + ", which there is not"
                            + (names == null && count > 0
                                    ? "; the names of arguments are not in the class file: compile with -parameters, or"
                                            + " write #p0"
                                    : ""));
        }
    }

    /** Plain arguments, and properties of them, that are joined to the name. */
    private static void addOperands(SpelNode node, List<SpelNode> operands) {
        if (node instanceof OpPlus) {
            for (int i = 0; i < node.getChildCount(); i++) {
                SpelNode operand = node.getChild(i);
                if (operand instanceof OpPlus) {
                    addOperands(operand, operands);
                } else if (isPath(operand)) {
                    operands.add(operand);
                }
            }
        }
    }

    private static boolean isPath(SpelNode node) {
        if (node instanceof CompoundExpression) {
            for (int i = 0; i < node.getChildCount(); i++) {
                if (!isPath(node.getChild(i))
                        && !(node.getChild(i) instanceof PropertyOrFieldReference)) {
                    return false;
                }
            }
            return true;
        }
        return node instanceof VariableReference;
    }

    /** An expression, and those operands of its sum that SpEL would write as "null". */
    private final class Part {
        final Expression expression;
        final List<SpelExpression> operands;

        Part(Expression expression, List<SpelExpression> operands) {
            this.expression = expression;
            this.operands = operands;
        }

        Object valueIn(MethodBasedEvaluationContext context) {
            for (SpelExpression operand : operands) {
                if (operand.getValue(context) == null) {
                    throw missing(operand.getExpressionString());
                }
            }
            return expression.getValue(context);
        }
    }

    /**
     * What an expression sees without a {@code #}. Public getters, as SpEL reads it by reflection.
     */
    static final class Root {
        private final Method method;
        private final Object target;
        private final Class<?> targetClass;
        private final Object[] args;

        Root(Method method, Object target, Class<?> targetClass, Object[] args) {
            this.method = method;
            this.target = target;
            this.targetClass = targetClass;
            this.args = args;
        }

        public Method getMethod() {
            return method;
        }

        public String getMethodName() {
            return method.getName();
        }

        public Object getTarget() {
            return target;
        }

        public Class<?> getTargetClass() {
            return targetClass;
        }

        public Object[] getArgs() {
            return args;
        }
    }
}
