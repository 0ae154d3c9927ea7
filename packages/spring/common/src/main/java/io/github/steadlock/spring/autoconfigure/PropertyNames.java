package io.github.steadlock.spring.autoconfigure;

import java.lang.reflect.Parameter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import org.springframework.boot.context.properties.bind.DataObjectPropertyName;
import org.springframework.boot.context.properties.bind.Name;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;

/**
 * The names of the properties of Steadlock, read from the constructor parameters of {@link
 * SteadlockProperties}, as Spring Boot reads them for binding.
 */
final class PropertyNames {
    /** The largest number of letters in which a misspelt name may differ. */
    private static final int MAX_CHANGES = 2;

    /** The least length of a name that can identify a property by its last words. */
    private static final int MIN_WORD_LENGTH = 5;

    private static final List<Property> ALL = new ArrayList<>();

    static {
        add("steadlock", SteadlockProperties.class);
    }

    private PropertyNames() {}

    /** Returns all names. */
    static List<String> all() {
        return ALL.stream().map(Property::name).toList();
    }

    /**
     * Returns whether Spring Boot reads the property {@code name} of a source.
     *
     * @param isEnvironment whether the source has environment variables, in which an underscore can
     *     stand for a dash
     */
    static boolean contain(ConfigurationPropertyName name, boolean isEnvironment) {
        String variable = ServiceLinks.variable(name, "");
        return ALL.stream()
                .anyMatch(
                        property ->
                                property.isReadFrom(variable)
                                        || (isEnvironment && property.isOldFormReadFrom(variable)));
    }

    /**
     * Returns the properties that an unknown {@code name} may mean: the properties that differ in
     * the fewest letters. If they differ in too many letters, returns the properties that end with
     * the words of {@code name}, and each map or list whose name is the beginning of {@code name}.
     */
    static List<String> near(ConfigurationPropertyName name) {
        if (name.getNumberOfElements() == 1) {
            return List.of("steadlock.url");
        }
        String given = ServiceLinks.variable(name, "_").toLowerCase(Locale.ROOT);
        given = given.substring(given.indexOf('_') + 1);
        String letters = given.replace("_", "");
        int fewest =
                ALL.stream().mapToInt(it -> changes(letters, it.letters())).min().orElseThrow();
        if (fewest <= Math.max(1, Math.min(MAX_CHANGES, letters.length() / 3))) {
            return named(it -> changes(letters, it.letters()) == fewest);
        }
        List<String> words = Arrays.asList(given.split("_"));
        return named(
                it ->
                        (letters.length() >= MIN_WORD_LENGTH && it.endsWith(words))
                                || (it.isMapOrList() && letters.startsWith(it.letters())));
    }

    private static List<String> named(Predicate<Property> isMeant) {
        return ALL.stream().filter(isMeant).map(Property::name).toList();
    }

    private static void add(String prefix, Class<?> type) {
        for (Parameter parameter : type.getDeclaredConstructors()[0].getParameters()) {
            Name given = parameter.getAnnotation(Name.class);
            String own = given == null ? parameter.getName() : given.value();
            String name = prefix + "." + DataObjectPropertyName.toDashedForm(own);
            if (Record.class.isAssignableFrom(parameter.getType())) {
                add(name, parameter.getType());
            } else {
                ALL.add(new Property(name, parameter.getType()));
            }
        }
    }

    /** Returns how many letters must be changed, added, left out or swapped with the next one. */
    private static int changes(String from, String to) {
        int[][] least = new int[from.length() + 1][to.length() + 1];
        for (int i = 0; i <= from.length(); i++) {
            for (int j = 0; j <= to.length(); j++) {
                if (i == 0 || j == 0) {
                    least[i][j] = i + j;
                    continue;
                }
                boolean isSame = from.charAt(i - 1) == to.charAt(j - 1);
                least[i][j] =
                        Math.min(
                                least[i - 1][j - 1] + (isSame ? 0 : 1),
                                1 + Math.min(least[i - 1][j], least[i][j - 1]));
                boolean isSwapped =
                        i > 1
                                && j > 1
                                && from.charAt(i - 1) == to.charAt(j - 2)
                                && from.charAt(i - 2) == to.charAt(j - 1);
                if (isSwapped) {
                    least[i][j] = Math.min(least[i][j], least[i - 2][j - 2] + 1);
                }
            }
        }
        return least[from.length()][to.length()];
    }

    private record Property(String name, Class<?> type) {
        boolean isReadFrom(String variable) {
            String own = form("");
            return isReadFrom(own, variable) || (isMap() && variable.startsWith(own + "_"));
        }

        /**
         * Returns whether Spring Boot reads the property from a variable in the older form, with
         * underscores for dashes. Spring Boot does not read the entries of a map in this form.
         */
        boolean isOldFormReadFrom(String variable) {
            return isReadFrom(form("_"), variable);
        }

        private boolean isReadFrom(String own, String variable) {
            return variable.equals(own)
                    || (List.class == type
                            && variable.startsWith(own + "_")
                            && variable.substring(own.length() + 1).matches("\\d+"));
        }

        boolean endsWith(List<String> words) {
            List<String> own = Arrays.asList(name.split("[.-]"));
            int start = own.size() - words.size();
            return start > 0 && own.subList(start, own.size()).equals(words);
        }

        boolean isMapOrList() {
            return isMap() || List.class == type;
        }

        /** Returns the name without {@code steadlock} and without the separators of its words. */
        String letters() {
            return name.substring(name.indexOf('.') + 1).replaceAll("[.-]", "");
        }

        private boolean isMap() {
            return Map.class == type;
        }

        private String form(String dash) {
            return ServiceLinks.variable(ConfigurationPropertyName.of(name), dash);
        }
    }
}
