package io.github.steadlock.spring.aop;

import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import javax.sql.DataSource;
import org.h2.jdbcx.JdbcDataSource;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.r2dbc.connection.R2dbcTransactionManager;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.transaction.annotation.EnableTransactionManagement;

/** Databases in memory with a table {@code stock}, which has one row with the number 0. */
final class Databases {
    private static final String TABLE =
            "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, number INT NOT NULL)";
    private static final String ROW =
            "INSERT INTO stock SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM stock)";

    private Databases() {}

    /** A database with JDBC. Contexts with the same {@code test.database} share it. */
    @Configuration(proxyBeanMethods = false)
    @EnableTransactionManagement(proxyTargetClass = true)
    static class Jdbc {
        @Bean
        DataSource dataSource(@Value("${test.database}") String name) {
            var source = new JdbcDataSource();
            source.setURL("jdbc:h2:mem:" + name + ";DB_CLOSE_DELAY=-1;LOCK_TIMEOUT=20000");
            return source;
        }

        @Bean
        JdbcTransactionManager transactionManager(DataSource source) {
            return new JdbcTransactionManager(source);
        }

        @Bean
        JdbcTemplate jdbc(DataSource source) {
            var jdbc = new JdbcTemplate(source);
            jdbc.execute(TABLE);
            jdbc.execute(ROW);
            return jdbc;
        }
    }

    /** A database with R2DBC. */
    @Configuration(proxyBeanMethods = false)
    @EnableTransactionManagement(proxyTargetClass = true)
    static class R2dbc {
        @Bean
        ConnectionFactory connectionFactory(@Value("${test.database}") String name) {
            return ConnectionFactories.get(
                    "r2dbc:h2:mem:///" + name + "?options=DB_CLOSE_DELAY=-1");
        }

        @Bean
        R2dbcTransactionManager transactionManager(ConnectionFactory factory) {
            return new R2dbcTransactionManager(factory);
        }

        @Bean
        DatabaseClient database(ConnectionFactory factory) {
            var database = DatabaseClient.create(factory);
            database.sql(TABLE).then().block();
            database.sql(ROW).then().block();
            return database;
        }
    }
}
