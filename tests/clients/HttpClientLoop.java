import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;

/** java.net.http in a retry loop, as services write it; command line and log as of operations.py. */
public class HttpClientLoop {
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] arguments) throws InterruptedException {
        String base = arguments[0];
        int operations = Integer.parseInt(arguments[1]);
        int retries = Integer.parseInt(arguments[2]);
        Duration timeout = seconds(arguments[3]);
        Duration pause = seconds(arguments[4]);
        boolean distinct = arguments[5].equals("distinct");
        for (int op = 0; op < operations; op++) {
            if (op > 0) {
                Thread.sleep(pause.toMillis());
            }
            URI uri = URI.create(base + (distinct ? "/op/" + op : "/hot"));
            perform(op, HttpRequest.newBuilder(uri).timeout(timeout).build(), retries);
        }
        System.exit(0);
    }

    private static void perform(int op, HttpRequest request, int retries) throws InterruptedException {
        long began = System.nanoTime();
        long delay = 20;
        for (int attempt = 1;; attempt++, delay *= 2) {
            String end;
            boolean well = false;
            try {
                int status = CLIENT.send(request, BodyHandlers.ofString()).statusCode();
                well = status != 429 && status < 500;
                end = "\"status\":" + status;
            } catch (IOException error) {
                end = "\"error\":\"" + error.getClass().getSimpleName() + "\"";
            }
            if (well || attempt > retries) {
                double took = (System.nanoTime() - began) / 1e9;
                System.out.println("{\"op\":" + op + "," + end + ",\"tries\":" + attempt + ",\"seconds\":" + took + "}");
                return;
            }
            Thread.sleep(delay);
        }
    }

    private static Duration seconds(String text) {
        return Duration.ofMillis((long) (Double.parseDouble(text) * 1000));
    }
}
