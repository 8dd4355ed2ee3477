# Runs docs/frameworks/jpa.md, once with Hibernate alone and once with Spring Data.
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId>
    <artifactId>spring-boot-starter-parent</artifactId>
    <version>3.5.7</version>
    <relativePath/>
  </parent>
  <groupId>sample</groupId>
  <artifactId>sample</artifactId>
  <version>1</version>
  <properties><java.version>17</java.version></properties>
  <dependencies>
    <dependency>
      <groupId>org.springframework.boot</groupId>
      <artifactId>spring-boot-starter-data-jpa</artifactId>
    </dependency>
    <dependency>
      <groupId>com.fasterxml.jackson.core</groupId>
      <artifactId>jackson-databind</artifactId>
    </dependency>
    <dependency>
      <groupId>org.postgresql</groupId>
      <artifactId>postgresql</artifactId>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <executions>
          <execution>
            <phase>package</phase>
            <goals><goal>build-classpath</goal></goals>
            <configuration><outputFile>classpath</outputFile></configuration>
          </execution>
        </executions>
      </plugin>
    </plugins>
  </build>
</project>
XML
cat >src/main/java/shop/Main.java <<'JAVA'
package shop;

import org.hibernate.cfg.Configuration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

@SpringBootApplication
public class Main {
    public static void main(String[] args) {
        String url = System.getenv("JDBC_URL");
        if (args[0].equals("hibernate")) {
            try (var sessions = new Configuration().addAnnotatedClass(Order.class).addAnnotatedClass(OutboxMessage.class)
                    .setProperty("hibernate.connection.url", url)
                    .setProperty("hibernate.connection.username", "postgres").buildSessionFactory()) {
                var shop = new PlainShop(sessions);
                place(shop::placeOrder);
            }
            return;
        }
        try (var context = SpringApplication.run(Main.class,
                "--spring.datasource.url=" + url, "--spring.datasource.username=postgres", "--spring.main.banner-mode=off")) {
            place(context.getBean(Shop.class)::placeOrder);
        }
    }

    interface Place {
        void order(String customer, int cents);
    }

    static void place(Place place) {
        place.order("ada", 4200);
        try {
            place.order("mallory", 1);
        } catch (RuntimeException refused) {
            return;
        }
        throw new IllegalStateException("no error");
    }
}
JAVA
address=${DATABASE_URL#*@} schema=${DATABASE_URL#*search_path=}
export JDBC_URL="jdbc:postgresql://${address%%\?*}?currentSchema=${schema%%&*}&user=postgres"
mvn --quiet --batch-mode package >&2
java -cp "target/classes:$(<classpath)" shop.Main hibernate >&2
java -cp "target/classes:$(<classpath)" shop.Main spring >&2
