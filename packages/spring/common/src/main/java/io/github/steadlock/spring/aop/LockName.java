package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.InvalidAnnotationException;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.convert.TypeDescriptor;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.TypeConverter;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.ExpressionState;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.Indexer;
import org.springframework.expression.spel.ast.OpPlus;
import org.springframework.expression.spel.ast.Projection;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.Selection;
import org.springframework.expression.spel.ast.StringLiteral;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.ObjectUtils;

/**
 * The name expression of an annotation, which gives one name or several. The constructor parses the
 * expression, and refuses one that cannot work.
 */
final class LockName {
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    static final ParameterNameDiscoverer PARAMETERS = new DefaultParameterNameDiscoverer();
    private static final TypeDescriptor TEXT = TypeDescriptor.valueOf(String.class);
    private static final Set<String> ROOT =
            Set.of("method", "methodName", "target", "targetClass", "args");

    private final String where;
    private final Method method;
    private final BeanFactoryResolver beans;
    private final List<Part> parts = new ArrayList<>();

    /**
     * @param where the method as messages name it
     * @param source the attribute, with its placeholders
     * @throws InvalidAnnotationException if the expression cannot give a name
     */
    LockName(
            String where,
            Method method,
            String source,
            ConfigurableListableBeanFactory beanFactory) {
        this.where = where;
        this.method = method;
        this.beans = new BeanFactoryResolver(beanFactory);
        for (Expression expression : parse(source, replaced(source, beanFactory))) {
            if (expression instanceof SpelExpression spel) {
                check(source, spel.getAST());
                parts.add(partOf(spel.getAST()));
            } else {
                String text = expression.getExpressionString();
                parts.add(new Part(text, state -> text, List.of(), List.of()));
            }
        }
    }

    /**
     * Returns the names for one call, each once.
     *
     * @throws IllegalArgumentException if there is no name, or if a name is null or empty
     */
    List<String> of(Object target, Class<?> targetClass, Object[] arguments) {
        var root = new Root(method, target, targetClass, arguments);
        var context = new MethodBasedEvaluationContext(root, method, arguments, PARAMETERS);
        context.setBeanResolver(beans);
        Object value = parts.size() == 1 ? valueOf(parts.get(0), context) : joined(parts, context);
        Set<String> names = new LinkedHashSet<>();
        for (Object one : severalOf(value)) {
            names.add(checked(one));
        }
        if (names.isEmpty()) {
            throw new IllegalArgumentException(
                    where + ": name has no lock, because its collection is empty");
        }
        return List.copyOf(names);
    }

    private String joined(List<Part> parts, EvaluationContext context) {
        var name = new StringBuilder();
        for (Part part : parts) {
            Object value = valueOf(part, context);
            if (value == null) {
                throw missing(part.source());
            }
            name.append(textOf(value, context));
        }
        return name.toString();
    }

    /** Converts a value to text in the same way as SpEL. */
    private String textOf(Object value, EvaluationContext context) {
        checkText(value);
        TypeConverter converter = context.getTypeConverter();
        TypeDescriptor type = TypeDescriptor.forObject(value);
        if (converter.canConvert(type, TEXT)) {
            return String.valueOf(converter.convertValue(value, type, TEXT));
        }
        return String.valueOf(value);
    }

    private Object valueOf(Part part, EvaluationContext context) {
        if (!part.joined().isEmpty()) {
            return joined(part.joined(), context);
        }
        for (Part operand : part.required()) {
            if (valueOf(operand, context) == null) {
                throw missing(operand.source());
            }
        }
        return part.value().apply(new ExpressionState(context));
    }

    /**
     * Refuses a value whose text differs in each process, because the lock would exclude no other
     * process.
     */
    private void checkText(Object value) {
        if (value instanceof String) {
            return;
        }
        if (value instanceof Optional<?> optional && optional.isEmpty()) {
            throw missing("an Optional");
        }
        if (value instanceof byte[] || isWithoutText(value.getClass())) {
            throw new IllegalArgumentException(
                    where
                            + ": name evaluates to an object of "
                            + value.getClass().getTypeName()
                            + ", which has no text of its own; use a property of it, such as its"
                            + " id");
        }
    }

    private static boolean isWithoutText(Class<?> type) {
        try {
            return !type.isArray()
                    && type.getMethod("toString").getDeclaringClass() == Object.class;
        } catch (NoSuchMethodException never) {
            return false;
        }
    }

    private String checked(Object value) {
        if (value != null) {
            checkText(value);
        }
        String name = value == null ? "" : value.toString();
        if (name.isEmpty()) {
            throw new IllegalArgumentException(
                    where
                            + ": name gives "
                            + (value == null ? "null" : "an empty text")
                            + ", which is not a lock's name");
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

    private List<Expression> parse(String source, String replaced) {
        if (replaced == null || replaced.isBlank()) {
            throw new InvalidAnnotationException(
                    where + ": name is empty; write name = \"'stock'\" or an expression");
        }
        try {
            return expressionsOf(replaced);
        } catch (ParseException | IllegalStateException malformed) {
            throw new InvalidAnnotationException(
                    where
                            + ": name = \""
                            + source
                            + "\" is not an expression: "
                            + malformed.getMessage()
                            + "; a literal is quoted: name = \"'stock'\"",
                    malformed);
        }
    }

    /**
     * Returns the expressions of a name and the texts between them. The placeholders must be
     * replaced already.
     */
    static List<Expression> expressionsOf(String text) {
        Expression expression =
                text.contains("#{")
                        ? PARSER.parseExpression(text, new TemplateParserContext())
                        : PARSER.parseExpression(text);
        return expression instanceof CompositeStringExpression several
                ? List.of(several.getExpressions())
                : List.of(expression);
    }

    /**
     * Refuses a word that refers to nothing: SpEL would notice only at the first call, or use null
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
                            + ", which does not exist; a literal is quoted: name = \"'"
                            + word.getName()
                            + "'\", and an argument has a #: #"
                            + word.getName());
        }
        if (node instanceof VariableReference variable) {
            checkVariable(source, variable.toStringAST().substring(1));
        }
        // Words inside these nodes are properties of another object than the root.
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
                            + ", which does not exist"
                            + (count == 0 ? "" : namesThereAre(names, count)));
        }
    }

    private static String namesThereAre(String[] names, int count) {
        return names == null
                ? "; the names of arguments are not in the class file: compile with -parameters, or"
                        + " write #p0"
                : "; it has #"
                        + String.join(", #", Arrays.asList(names).subList(0, count))
                        + ", the names in that class, and #p0 whatever the name";
    }

    /** Returns an expression, split into the parts that it joins to a text. */
    private static Part partOf(SpelNode node) {
        var operands = new ArrayDeque<SpelNode>();
        var sums = new ArrayDeque<SpelNode>();
        SpelNode first = node;
        while (first instanceof OpPlus && first.getChildCount() == 2) {
            sums.addFirst(first);
            operands.addFirst(first.getChild(1));
            first = first.getChild(0);
        }
        operands.addFirst(first);
        sums.addFirst(first);
        List<SpelNode> all = List.copyOf(operands);
        int firstText = 0;
        while (firstText < all.size() && !(all.get(firstText) instanceof StringLiteral)) {
            firstText++;
        }
        if (all.size() == 1) {
            return new Part(node.toStringAST(), node::getValue, List.of(), List.of());
        }
        if (firstText == all.size()) {
            // The operands may be numbers, which are added.
            List<Part> required =
                    all.stream().filter(LockName::isPath).map(LockName::partOf).toList();
            return new Part(node.toStringAST(), node::getValue, List.of(), required);
        }
        // SpEL evaluates the operands before the first text as one sum.
        List<Part> joined = new ArrayList<>();
        int begin = Math.max(firstText, 1);
        joined.add(partOf(List.copyOf(sums).get(begin - 1)));
        all.stream().skip(begin).map(LockName::partOf).forEach(joined::add);
        return new Part(node.toStringAST(), node::getValue, joined, List.of());
    }

    /**
     * Returns whether the node is an argument or a property of one, which can be evaluated twice
     * without harm.
     */
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

    /**
     * A part of a name. SpEL would write "null" for a missing value, so missing values are refused
     * here.
     *
     * @param joined the parts that this part joins to a text; may be empty
     * @param required further parts that must not be null
     */
    private record Part(
            String source,
            Function<ExpressionState, Object> value,
            List<Part> joined,
            List<Part> required) {}

    /**
     * The object whose properties an expression can read without a {@code #}. The getters are
     * public, because SpEL calls them by reflection.
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
