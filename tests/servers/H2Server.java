import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import org.h2.tools.Server;

/**
 * H2's server of the PostgreSQL protocol, with connections that do not wait for the acknowledgement
 * of one piece of an answer before they send the next: with H2's own every answer takes 44 ms.
 */
class H2Server {
  public static void main(String[] options) throws Exception {
    var service = Server.createPgServer(options).getService();
    service.start();
    var field = service.getClass().getDeclaredField("serverSocket");
    field.setAccessible(true);
    field.set(service, new UndelayedSocket((ServerSocket) field.get(service)));
    service.listen();
  }
}

class UndelayedSocket extends ServerSocket {
  private final ServerSocket socket;

  UndelayedSocket(ServerSocket socket) throws IOException {
    this.socket = socket;
  }

  @Override
  public Socket accept() throws IOException {
    var accepted = socket.accept();
    accepted.setTcpNoDelay(true);
    return accepted;
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
