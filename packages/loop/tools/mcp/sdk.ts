/**
 * What is used of the protocol's own client, `@modelcontextprotocol/client`: the module itself fits. It is handed in, so
 * that only those install it who have servers.
 */
export interface McpSdk {
  /** Speaks the protocol over a transport. */
  readonly Client: new (
    info: { readonly name: string; readonly version: string },
    options: { readonly capabilities: Readonly<Record<string, never>> },
  ) => McpClient;
  /** Reaches a server by streamable HTTP. */
  readonly StreamableHTTPClientTransport: new (url: URL, options: {
    readonly requestInit: { readonly headers: Record<string, string> };
    readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>;
  }) => McpHttpTransport;
}

/** One connection to a server, as the protocol's client gives it. */
export interface McpClient {
  /** Called once the connection is closed, whoever closed it. */
  onclose?: (() => void) | undefined;
  /** Called with what concerns no request. */
  onerror?: ((error: Error) => void) | undefined;
  /** Connects and agrees on a version. */
  connect(transport: object, options: McpRequestOptions): Promise<void>;
  /** Sends a request; the schema says what is made of its answer. */
  request(
    request: { readonly method: string; readonly params: Record<string, unknown> },
    schema: AnyResult,
    options: McpRequestOptions,
  ): Promise<unknown>;
  /** Calls back for each notification of the kind. */
  setNotificationHandler(method: "notifications/tools/list_changed", handler: () => void): void;
  /** Ends the connection. */
  close(): Promise<void>;
}

/** How long an answer may take, what stops the request, and who is told how far it is. */
export interface McpRequestOptions {
  /** In milliseconds. */
  readonly timeout: number;
  /** Aborting it cancels the request at the server too. */
  readonly signal: AbortSignal;
  /** Told how far the request is. Default: nobody asks. */
  readonly onprogress?: (progress: McpProgress) => void;
}

/** How far a request is. */
export interface McpProgress {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}

/** The transport of streamable HTTP, as far as it isn't the client's business. */
export interface McpHttpTransport {
  /** Tells the server that its session has ended. */
  terminateSession(): Promise<void>;
}

/** A result schema that takes every answer, in the form that validators share: what servers send is looked at here. */
export interface AnyResult {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => { readonly value: unknown };
  };
}

/** The schema that takes every answer. */
export const ANY_RESULT: AnyResult = {
  "~standard": { version: 1, vendor: "tare", validate: (value) => ({ value }) },
};
