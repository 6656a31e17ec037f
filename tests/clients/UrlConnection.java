import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;

/**
 * HttpURLConnection as it is: no loop, but it sends a request again in silence where a kept connection
 * dies under it. Command line and log as of operations.py (RETRIES is not its to choose).
 */
public class UrlConnection {
    public static void main(String[] arguments) throws Exception {
        int operations = Integer.parseInt(arguments[1]);
        int timeout = (int) (Double.parseDouble(arguments[3]) * 1000);
        long pause = (long) (Double.parseDouble(arguments[4]) * 1000);
        boolean distinct = arguments[5].equals("distinct");
        for (int op = 0; op < operations; op++) {
            if (op > 0) {
                Thread.sleep(pause);
            }
            long began = System.nanoTime();
            String end;
            try {
                end = "\"status\":" + get(new URL(arguments[0] + (distinct ? "/op/" + op : "/hot")), timeout);
            } catch (IOException error) {
                end = "\"error\":\"" + error.getClass().getSimpleName() + "\"";
            }
            double took = (System.nanoTime() - began) / 1e9;
            System.out.println("{\"op\":" + op + "," + end + ",\"seconds\":" + took + "}");
        }
    }

    private static int get(URL url, int timeout) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) url.openConnection();
        connection.setConnectTimeout(timeout);
        connection.setReadTimeout(timeout);
        int status = connection.getResponseCode();
        // Read to its end, or the connection is not kept.
        try (InputStream body = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            if (body != null) {
                body.readAllBytes();
            }
        }
        return status;
    }
}
