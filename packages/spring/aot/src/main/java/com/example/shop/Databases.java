package com.example.shop;

import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import java.util.UUID;
import javax.sql.DataSource;
import org.h2.jdbcx.JdbcDataSource;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.r2dbc.connection.R2dbcTransactionManager;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.reactive.TransactionalOperator;

/** Two databases in memory: one for blocking and one for reactive transactions. */
@Configuration(proxyBeanMethods = false)
@EnableTransactionManagement(proxyTargetClass = true)
class Databases {
    private static final String TABLE = "CREATE TABLE stock AS SELECT CAST(0 AS INT) AS sold";

    @Bean
    DataSource dataSource() {
        var source = new JdbcDataSource();
        source.setURL("jdbc:h2:mem:" + UUID.randomUUID() + ";DB_CLOSE_DELAY=-1");
        return source;
    }

    @Bean
    @Primary
    JdbcTransactionManager blocking(DataSource source) {
        return new JdbcTransactionManager(source);
    }

    @Bean
    JdbcTemplate jdbc(DataSource source) {
        var jdbc = new JdbcTemplate(source);
        jdbc.execute(TABLE);
        return jdbc;
    }

    @Bean
    ConnectionFactory connectionFactory() {
        return ConnectionFactories.get(
                "r2dbc:h2:mem:///" + UUID.randomUUID() + "?options=DB_CLOSE_DELAY=-1");
    }

    @Bean
    R2dbcTransactionManager reactive(ConnectionFactory factory) {
        return new R2dbcTransactionManager(factory);
    }

    @Bean
    TransactionalOperator operator(R2dbcTransactionManager reactive) {
        return TransactionalOperator.create(reactive);
    }

    @Bean
    DatabaseClient database(ConnectionFactory factory) {
        var database = DatabaseClient.create(factory);
        database.sql(TABLE).then().block();
        return database;
    }
}
