import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;

/** java.net.http in a retry loop, as services write it: java Client.java URL RETRIES */
public class Client {
    public static void main(String[] arguments) throws InterruptedException {
        int retries = Integer.parseInt(arguments[1]);
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0])).timeout(Duration.ofSeconds(10)).build();
        long delay = 200;
        for (int attempt = 0; ; attempt++, delay *= 2) {
            try {
                int status = client.send(request, BodyHandlers.ofString()).statusCode();
                if (status != 429 && status < 500) {
                    System.exit(0);
                }
                throw new IOException("status " + status);
            } catch (IOException error) {
                if (attempt == retries) {
                    System.err.println("java: " + error);
                    System.exit(1);
                }
            }
            Thread.sleep(delay);
        }
    }
}
